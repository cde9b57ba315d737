"""One page that tells of a run, charts included: read from its folder, written as HTML or Markdown."""
