"""Knowledge access: learn facts from a corpus, answer questions, know what is known."""
