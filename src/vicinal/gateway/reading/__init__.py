"""Reading of long bodies in a process of its own, so that decoding, tokenising and hashing hold nobody else up.

A thread would not do: msgspec decodes, and Python makes its objects, under the interpreter's lock.
"""
