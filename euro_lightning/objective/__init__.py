"""What the encoder learns: masking and the masked-language-modelling loss."""
