"""What a run will take: time, passes through the models, memory and disk.

Shapes of models, and costs of earlier runs, come in; seconds and bytes go out. Nothing here runs or times a cell.
"""
