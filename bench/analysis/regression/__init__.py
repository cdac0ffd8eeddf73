"""What ``headbench regress`` asks of two folders of records: what is equal, what moved, and is it too much."""
