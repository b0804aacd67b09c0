"""Other kernels, emulated: the host's side (run, image) and the guest's (guest-init, guest)."""
