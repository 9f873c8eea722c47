package addresses

// Error is the refusal of one address or name.
type Error struct {
	// What was refused, and Why, as "a loopback address".
	What, Why string
	// mend is the entry of allow that would open the address; "" if none does.
	mend   string
	denied bool
}

// Error says what is refused and how to mend it.
func (e *Error) Error() string {
	text := e.What + " is refused: it is " + e.Why
	switch {
	case e.denied:
		return text + " (providers[].addresses.deny of the HostConfiguration)"
	case e.mend != "":
		return text + "; if it is right, add " + e.mend + " to providers[].addresses.allow of the HostConfiguration"
	}
	return text
}
