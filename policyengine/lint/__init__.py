"""What can be said about policies before they run; nothing is imported until it is asked for."""
