"""SQL text to statements, and back."""
