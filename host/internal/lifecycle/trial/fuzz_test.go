package trial

import (
	"reflect"
	"testing"
)

// FuzzDecode reads what anybody may have written into the ConfigMap: it is
// refused, or is a book within its bounds that is read the same again.
func FuzzDecode(f *testing.F) {
	for _, text := range []string{
		"", "{}", "null", `{"marks":[{"provider":"p","module":"m","config":"c","id":1,"manager":"a","since":"2026-11-22T01:02:03Z"}]}`,
		`{"suspects":[{"provider":"p","ends":-1}],"passed":[{}],"ends":[{"at":"0001-01-01T00:00:00Z"}]}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		b, err := Decode(text)
		if err != nil {
			return
		}
		b.again("a", begun)
		_ = b.begin(mark("a", "m", 1), Offered) // whatever it says
		for _, n := range []int{len(b.Marks), len(b.Suspects), len(b.Passed), len(b.Ends)} {
			if n > maxEntries {
				t.Errorf("%d entries", n)
			}
		}
		if len(b.Left("a")) > 1 {
			t.Errorf("marks of the process before are left: %+v", b.Marks)
		}
		once, err := b.Encode()
		if err != nil {
			return // a year that JSON does not know
		}
		again, err := Decode(once)
		if err != nil {
			return // larger than what is read
		}
		if twice, err := again.Encode(); err != nil || twice != once {
			t.Errorf("%v: %s is read as %s", err, once, twice)
		}
		if !reflect.DeepEqual(again.Passed, b.Passed) && len(b.Passed) > 0 {
			t.Errorf("passed %+v, want %+v", again.Passed, b.Passed)
		}
	})
}
