"""Networks for one run or for one device."""
