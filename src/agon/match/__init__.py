"""The one place where a draft meets a challenge."""
