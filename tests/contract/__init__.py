"""What two parts of the product promise each other: the same words on both sides."""
