"""The console over ASGI, without a browser."""
