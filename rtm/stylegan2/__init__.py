"""StyleGAN2 and adaptive discriminator augmentation (Sec. 4.3): the adversarial regime, with any mapper."""
