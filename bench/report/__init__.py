"""A report that people look at: static pages, figures and tables in one folder, from records alone.

Data flows one way: records -> board (what is there) -> standing (what the statistics say) and lines (what is drawn) ->
pictures and tables -> pages. The same records give the same bytes.
"""
