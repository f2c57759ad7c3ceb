"""The web application over run folders: `attnlab studio`.

The server never imports torch: only the worker processes do. So the server answers at once, and a
model that crashes ends its worker but not the server.
"""
