"""How things are said: texts, schedules, and code of others that registers names."""
