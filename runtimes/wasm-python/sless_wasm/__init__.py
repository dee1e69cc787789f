"""The engine of runtime `wasm-python`: CPython as a component, the handler contract over `wasi:http`.

The event, what a handler may return, and problems are those of the container runtime (`sless_runtime`). Start at `main.py`.
"""
