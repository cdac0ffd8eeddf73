"""Records in, a report for people out: the leaderboard, pages, figures and tables, and comparisons in words.

Data flows one way: records -> board (what there is) -> standing (what the statistics say) and lines (what is drawn) ->
pictures and tables -> pages. The same records give the same bytes. Knows no method, no task and no model.
"""
