"""The main story on embedded data: a small model reads about people, answers questions about them,
says what it knows and what it guesses, and shows where it looked. `attnlab.demo.telling` tells it.
"""
