"""Files of data sets: where they are looked for, how they are fetched, and the formats that several
sets share."""
