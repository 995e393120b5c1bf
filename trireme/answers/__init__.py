"""Answers: what every command shows, as models for people, scripts and agents alike."""
