"""Bad input: a typed error that says what to do, before anything is written."""
