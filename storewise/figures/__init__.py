"""One function per figure; ``captions.FIGURES`` lists them with their captions."""
