"""The pure room: values and the functions over them. No I/O, no clock."""
