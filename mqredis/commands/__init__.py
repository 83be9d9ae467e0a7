"""One function per script: arguments in, a :class:`~mqredis.steps.Call` out; what it answers is parsed here.

This floor alone knows the order of ARGV and of replies; the headers in ``lua/`` say the same, and a contract test
holds the two together.
"""
