"""Methods in PEFT's form, one file each."""
