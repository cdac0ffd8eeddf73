"""Methods against each other and their controls: what may be compared, how it is paired, and what that shows."""
