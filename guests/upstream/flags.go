package upstream

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// setFlags sets the flags that the provider's packages declared, in the set of
// either library. Nothing parses a command line here.
func setFlags(values map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		found, err := setFlag(name, values[name])
		if err != nil {
			return fmt.Errorf("flags: %s: %q: %w", name, values[name], err)
		}
		if !found {
			return fmt.Errorf("flags: the provider declares no %q. %s", name, declaredFlags())
		}
	}
	return nil
}

// setFlag sets a flag in both sets if both declare it: the provider may read
// either.
func setFlag(name, value string) (found bool, err error) {
	if flag.Lookup(name) != nil {
		found = true
		if err := flag.Set(name, value); err != nil {
			return found, described(err, flag.Lookup(name).Usage, flag.Lookup(name).DefValue)
		}
	}
	if pflag.Lookup(name) != nil {
		found = true
		if err := pflag.Set(name, value); err != nil {
			return found, described(err, pflag.Lookup(name).Usage, pflag.Lookup(name).DefValue)
		}
	}
	return found, nil
}

// described adds the flag's default: the errors of both libraries lack the form
// of a value.
func described(err error, usage, standard string) error {
	return fmt.Errorf("%w; the flag's default is %q: %s", err, standard, usage)
}

// declaredFlags lists the flags for an administrator, who does not see the
// code.
func declaredFlags() string {
	names := map[string]bool{}
	flag.VisitAll(func(f *flag.Flag) { names[f.Name] = true })
	pflag.VisitAll(func(f *pflag.Flag) { names[f.Name] = true })
	if len(names) == 0 {
		return "It declares none: a package that adds its flags in a function needs a call of that function in the main package, with flag.CommandLine or pflag.CommandLine"
	}
	return "It has " + strings.Join(slices.Sorted(maps.Keys(names)), ", ")
}
