"""Charts: data reduction, axes and the widgets that draw them."""
