"""The server of runtime `python3.11`: HTTP in, a call of the user's handler, HTTP out.

The contract it keeps is in `runtimes/README.md`. It uses the standard library only.
"""
