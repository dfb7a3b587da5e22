"""Claims as data: what a paper says of one model, or of two, and the verdict that kept results give."""
