"""The web application over run folders: `attnlab studio`.

Nothing here imports torch but what `worker` runs in processes of its own: the server answers at
once, and a model that crashes takes a worker with it, never the server.
"""
