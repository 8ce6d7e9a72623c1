"""Operations that torch computes slowly, each with its plain path."""
