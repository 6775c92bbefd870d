"""What happens around a step, on the token clock."""
