"""One function per script: arguments in, a :class:`~mqredis.steps.Call` out; what it answers is parsed here.

Operations call the functions. The drivers, workers, kombu and Spark use some of the constants and classes.

This layer alone knows the order of ARGV and of replies. The heads of the scripts in ``lua/`` describe both:
``tests/contract/test_headers.py`` compares the number of arguments and keys of each call with them. Nothing compares
the order of a reply but the tests that use the script: change its RETURNS lines and its ``parse`` together.

``arguments`` reads calls that were made; ``replies`` has the parts that all replies have.
"""
