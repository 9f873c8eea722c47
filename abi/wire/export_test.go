package wire

// MaxOverheadPerByte is for tests.
const MaxOverheadPerByte = maxOverheadPerByte
