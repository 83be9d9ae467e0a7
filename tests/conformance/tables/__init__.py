"""Cases that follow from the sentences of the rules, beyond the published ones; ``script.py`` says how to read them."""
