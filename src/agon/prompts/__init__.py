"""The only caller of the chat template; wording, summaries, withholding."""
