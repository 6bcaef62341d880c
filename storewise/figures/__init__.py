"""One function per figure; ``make.FIGURES`` lists them."""
