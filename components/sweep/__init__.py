"""A sweep: many trainings with different parameters, of which the best goes on."""
