"""What methods lose, save and cost, and what that means for a budget of size, time or quality."""
