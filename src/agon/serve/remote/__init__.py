"""Two OpenAI-compatible servers as what samples: asked over HTTP, read as they stream, refused in one line."""
