package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/wasm-ccm/wasm-ccm/host/config/v1alpha1"
	"github.com/wasm-ccm/wasm-ccm/host/conformance"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/compile"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/engine/wazero"
	"github.com/wasm-ccm/wasm-ccm/host/internal/sandbox/plugin"
	"github.com/wasm-ccm/wasm-ccm/host/internal/version"
)

// conformanceFlags are those of ccmctl conformance.
type conformanceFlags struct {
	config, provider       string
	module, providerConfig string
	secrets, wrongSecrets  string
	signers                map[string]string
	cases                  string
	cache                  string
	inspect                string
	ignoreIPs              bool
	ignore                 string
	only, except, output   string
	quiet, verbose         bool
	options                conformance.Options // times and bounds
}

func newConformance() *cobra.Command {
	f := &conformanceFlags{}
	cmd := &cobra.Command{
		Use:   "conformance --module FILE --cases FILE [--config FILE]",
		Short: "Walk a provider's module through the contract of the ABI, against a cloud for tests, and report each clause",
		Long: `Walk a provider's module through the contract of the ABI and report each clause.

It makes and deletes load balancers and routes: give it a cloud for tests. The
module runs as in the manager, with the grants, credentials and limits of a
HostConfiguration, the Secrets of a directory (files NAMESPACE/NAME/KEY) and a
store in memory. Between it and the cloud the kit ends ops and spoils answers.
The exit code is 1 when a clause does not hold.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd.Flags())
	for _, name := range []string{"module", "cases"} {
		if err := cmd.MarkFlagRequired(name); err != nil {
			panic(err) // there is no such flag
		}
	}
	return cmd
}

func (f *conformanceFlags) add(fs *pflag.FlagSet) {
	fs.StringVar(&f.module, "module", "", "The provider's module: NAME.wasm, .wasm.gz or .wasm.zst.")
	fs.StringVar(&f.providerConfig, "provider-config", "", "File with the provider's configuration.")
	fs.StringVar(&f.config, "config", "", "File with a HostConfiguration, as the manager reads it. None: every capability, and no URL.")
	fs.StringVar(&f.provider, "provider", "", "Which provider of --config, where there are several.")
	fs.StringVar(&f.secrets, "secrets", "", "Directory with the Secrets of the credentials, as files NAMESPACE/NAME/KEY.")
	fs.StringVar(&f.wrongSecrets, "wrong-secrets", "", "Directory with Secrets that the cloud refuses. None: passwords, keys and tokens of --secrets are spoiled.")
	fs.StringToStringVar(&f.signers, "signer-module", nil, "CREDENTIAL=FILE: the module of the signer of a credential. Repeatable.")
	fs.StringVar(&f.cases, "cases", "", "File with what the cloud has: nodes, Services, routes, volumes.")
	fs.StringVar(&f.cache, "compilation-cache-dir", "", "Directory that keeps the compiled module, so that the next run of a large one begins at once. None: a temporary one.")
	fs.StringVar(&f.inspect, "inspect", "", "Shell command that describes in lines all that the cloud keeps for the cluster. With it the kit sees what is left behind.")
	fs.BoolVar(&f.ignoreIPs, "inspect-ignore-ips", false, "Treat all addresses in the output of --inspect as equal, beside UUIDs, times and numbers of six digits and more.")
	fs.StringVar(&f.ignore, "inspect-ignore", "", "Regular expression: treat what it matches in the output of --inspect as equal, as IDs of fewer than six digits.")
	fs.StringVar(&f.only, "only", "", "Regular expression: run the clauses whose ID it matches.")
	fs.StringVar(&f.except, "except", "", "Regular expression: leave out the clauses whose ID it matches, and say so in the report.")
	fs.StringVarP(&f.output, "output", "o", "text", "text or json.")
	fs.BoolVarP(&f.quiet, "quiet", "q", false, "Do not tell on standard error which clause runs.")
	fs.BoolVarP(&f.verbose, "verbose", "v", false, "Tell on standard error each time that an op is disturbed, too.")
	fs.DurationVar(&f.options.MaxWait, "max-wait", 2*time.Second, "Longest wait before an op is asked again, whatever the provider asks for.")
	fs.DurationVar(&f.options.DriveTimeout, "drive-timeout", 5*time.Minute, "Time for an op with all its repetitions.")
	fs.DurationVar(&f.options.FaultTimeout, "fault-timeout", 3*time.Second, "Deadline of an op whose cloud hangs.")
	fs.DurationVar(&f.options.Settle, "settle", 5*time.Second, "How long the cloud may take to show by --inspect what an op has done.")
	fs.IntVar(&f.options.MaxPositions, "max-positions", 200, "At how many requests of one op it is ended, or its cloud fails, at most.")
	fs.BoolVar(&f.options.CrashAtWrites, "crash-at-writes", false, "End ops at requests that change something only, which is quicker.")
}

// errNotConformant is the end of a run in which a clause failed.
var errNotConformant = errors.New("the provider does not conform; see the report")

func (f *conformanceFlags) run(cmd *cobra.Command) error {
	if f.output != "text" && f.output != "json" {
		return fmt.Errorf("--output %q: must be text or json", f.output)
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // once more ends without tidying up
	cache, remove, err := cacheDir(f.cache)
	if err != nil {
		return fmt.Errorf("a directory for compiled modules: %w", err)
	}
	defer remove()
	options, err := f.read()
	if err != nil {
		return err
	}
	if options.Engine, options.Compiler, err = newEngine(cache); err != nil {
		return err
	}
	options.Progress = f.progress(cmd)
	report, err := conformance.Run(ctx, options)
	if err != nil && len(report.Results) == 0 {
		return err
	}
	write := report.WriteSummary // the clauses stand there already
	if f.output == "json" {
		write = report.WriteJSON
	}
	if err := errors.Join(err, write(cmd.OutOrStdout())); err != nil {
		return err
	}
	if !report.Passed() {
		return errNotConformant
	}
	return nil
}

// cacheDir makes the directory, or a temporary one that remove takes away.
func cacheDir(path string) (dir string, remove func(), err error) {
	if path != "" {
		return path, func() {}, os.MkdirAll(path, 0o700)
	}
	dir, err = os.MkdirTemp("", "ccmctl-conformance-")
	return dir, func() { _ = os.RemoveAll(dir) }, err
}

// silence is how long a clause says nothing of what it is doing, at most.
const silence = 10 * time.Second

// progress writes each clause when it ends, so that nothing is lost when the
// run is ended, and tells on standard error what is going on.
func (f *conformanceFlags) progress(cmd *cobra.Command) func(conformance.Result) {
	out, w, said := cmd.OutOrStdout(), cmd.ErrOrStderr(), time.Now()
	if f.quiet {
		w = io.Discard
	}
	return func(r conformance.Result) {
		switch {
		case r.Verdict != "":
			fmt.Fprintf(w, "%-18s %s, %.1f s\n", r.ID, r.Verdict, r.Took.Seconds())
			if f.output == "text" {
				_ = r.WriteText(out) // the summary fails as well then
			}
		case r.Note == "":
			fmt.Fprintf(w, "%-18s ...\n", r.ID)
		case f.verbose || time.Since(said) >= silence:
			fmt.Fprintf(w, "%-18s   %s\n", r.ID, r.Note)
		default:
			return
		}
		said = time.Now()
	}
}

// compileCommand is the hidden argument with which ccmctl starts itself to
// compile a module, with the limits that the manager has for it.
const compileCommand = "compile-module"

// newEngine returns the engine and the compiler of the manager.
func newEngine(cache string) (engine.Engine, plugin.Compiler, error) {
	self, err := compile.Self()
	if err != nil {
		return nil, nil, err
	}
	e := wazero.New(wazero.Options{CacheDir: cache})
	compiler, err := compile.NewParent(compile.Options{
		Command: []string{self, compileCommand}, Version: func(string) string { return version.Release() }, CacheDir: cache, Limits: compile.DefaultLimits(),
	})
	if err != nil {
		return nil, nil, err
	}
	return e, compiler.For("conformance"), nil
}

// read reads all files.
func (f *conformanceFlags) read() (o conformance.Options, err error) {
	o = f.options
	if o.Module, err = readModule(f.module); err != nil {
		return o, err
	}
	if f.providerConfig != "" {
		if o.Config, err = readFile(f.providerConfig, maxSmall); err != nil {
			return o, err
		}
	}
	cases, err := readFile(f.cases, maxSmall)
	if err != nil {
		return o, err
	}
	if o.Cases, err = conformance.ParseCases(cases); err != nil {
		return o, fmt.Errorf("%s: %w", f.cases, err)
	}
	if o.Provider, err = f.readProvider(); err != nil {
		return o, err
	}
	if err := f.readSecrets(&o); err != nil {
		return o, err
	}
	if f.only != "" {
		if o.Only, err = regexp.Compile(f.only); err != nil {
			return o, fmt.Errorf("--only: %w", err)
		}
	}
	if f.except != "" {
		if o.Except, err = regexp.Compile(f.except); err != nil {
			return o, fmt.Errorf("--except: %w", err)
		}
	}
	if f.ignore != "" {
		if o.Ignore, err = regexp.Compile(f.ignore); err != nil {
			return o, fmt.Errorf("--inspect-ignore: %w", err)
		}
	}
	if f.inspect != "" {
		o.Inspect, o.IgnoreIPs = shell(f.inspect), f.ignoreIPs
	}
	return o, nil
}

func (f *conformanceFlags) readSecrets(o *conformance.Options) (err error) {
	for dir, into := range map[string]*conformance.Secrets{f.secrets: &o.Secrets, f.wrongSecrets: &o.WrongSecrets} {
		if dir == "" {
			continue
		}
		if *into, err = conformance.ReadSecrets(os.DirFS(dir)); err != nil {
			return fmt.Errorf("the Secrets of %s: %w", dir, err)
		}
	}
	o.Signers = map[string][]byte{}
	for name, file := range f.signers {
		if o.Signers[name], err = readModule(file); err != nil {
			return fmt.Errorf("--signer-module %s: %w", name, err)
		}
	}
	return nil
}

// readProvider returns the zero value without --config, which conformance
// fills in.
func (f *conformanceFlags) readProvider() (v1alpha1.Provider, error) {
	if f.config == "" {
		return v1alpha1.Provider{}, nil
	}
	data, err := readFile(f.config, v1alpha1.MaxBytes)
	if err != nil {
		return v1alpha1.Provider{}, err
	}
	c, err := v1alpha1.Decode(data)
	if err != nil {
		return v1alpha1.Provider{}, fmt.Errorf("--config %s: %w", f.config, err)
	}
	var names []string
	for _, p := range c.Providers {
		if p.Name == f.provider || f.provider == "" && len(c.Providers) == 1 {
			return p, nil
		}
		names = append(names, p.Name)
	}
	return v1alpha1.Provider{}, fmt.Errorf("--provider %q: must be one of those in %s: %s", f.provider, f.config, strings.Join(names, ", "))
}

// maxInspect bounds what an inspection prints, in bytes.
const maxInspect = 16 << 20

// shell returns what a command prints. A command that fails is no description.
func shell(command string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		var stdout, stderr bytes.Buffer
		cmd := exec.CommandContext(ctx, "sh", "-c", command)
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("--inspect: %w: %s", err, strings.TrimSpace(stderr.String()[:min(stderr.Len(), 1000)]))
		}
		if stdout.Len() > maxInspect {
			return "", fmt.Errorf("--inspect: %d bytes, at most %d are read: print less", stdout.Len(), maxInspect)
		}
		return stdout.String(), nil
	}
}
