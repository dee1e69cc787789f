"""The runtime's own reading of requests and answers: links to ``runtimes/python3.11`` in the project."""
