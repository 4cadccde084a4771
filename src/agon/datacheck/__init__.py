"""Checks a data set before anything is trained on it or measured with it, with the verifier that will judge its answers."""
