"""What of a cluster needs attention: rules that are pure, each with its threshold, and the order of what they find."""
