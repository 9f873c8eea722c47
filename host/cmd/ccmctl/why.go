package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/wasm-ccm/wasm-ccm/host/internal/text"
	"github.com/wasm-ccm/wasm-ccm/host/status/v1alpha1"
)

// whyKinds are people's names of the kinds.
var whyKinds = map[string]string{
	"service": v1alpha1.KindService, "services": v1alpha1.KindService, "svc": v1alpha1.KindService,
	"node": v1alpha1.KindNode, "nodes": v1alpha1.KindNode, "no": v1alpha1.KindNode,
	"route": v1alpha1.KindRoute, "routes": v1alpha1.KindRoute,
	"persistentvolume": v1alpha1.KindVolume, "persistentvolumes": v1alpha1.KindVolume, "pv": v1alpha1.KindVolume,
	"provider": v1alpha1.KindProvider, "providers": v1alpha1.KindProvider, "cloudprovider": v1alpha1.KindProvider,
}

// whyFlags are the flags of why.
type whyFlags struct {
	managerFlags
	output string
}

func newWhy() *cobra.Command {
	var f whyFlags
	cmd := &cobra.Command{
		Use:   "why service|node|route|pv|provider NAME",
		Short: "Say why an object is as it is: what holds it back, and what to do",
		Long: "Say why a Service has no address, a Node keeps its taint or is not deleted, the\n" +
			"pod network of a Node has no route, a PersistentVolume no zone, or a provider does\n" +
			"not serve what is offered: what the provider was asked last, and when, what the\n" +
			"cloud said, what is waited for, and the next step. The exit code is 0 whatever the\n" +
			"answer is.",
		Example: "  ccmctl why service web\n" +
			"  ccmctl why service/web -n shop\n" +
			"  ccmctl why node worker-1\n" +
			"  ccmctl why route worker-1\n" +
			"  ccmctl why provider static -o json",
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: completeWhy,
		RunE: func(cmd *cobra.Command, args []string) error {
			object, err := f.object(args)
			if err != nil {
				return err
			}
			return f.run(cmd, object)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "", "the namespace of the Service (default that of the kubeconfig)")
	addOutput(cmd, &f.output)
	return cmd
}

func completeWhy(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return []string{"service", "node", "route", "pv", "provider"}, cobra.ShellCompDirectiveNoFileComp
}

// object parses KIND NAME or KIND/NAME.
func (f *whyFlags) object(args []string) (v1alpha1.Object, error) {
	kind, name := args[0], ""
	if len(args) == 2 {
		name = args[1]
	} else {
		kind, name, _ = strings.Cut(args[0], "/")
	}
	known, ok := whyKinds[strings.ToLower(kind)]
	switch {
	case !ok:
		return v1alpha1.Object{}, fmt.Errorf("%s: must be service, node, route, pv or provider", text.Quote(kind))
	case name == "":
		return v1alpha1.Object{}, fmt.Errorf("which %s? Its name is missing", strings.ToLower(known))
	}
	o := v1alpha1.Object{Kind: known, Name: name}
	if namespace, short, cut := strings.Cut(name, "/"); cut && known == v1alpha1.KindService {
		o.Namespace, o.Name = namespace, short
	} else if known == v1alpha1.KindService {
		o.Namespace = f.objectNamespace()
	}
	return o, nil
}

func (f *whyFlags) run(cmd *cobra.Command, o v1alpha1.Object) error {
	if err := checkOutput(f.output); err != nil {
		return err
	}
	client, err := f.connect(cmd.Context(), false)
	if err != nil {
		return err
	}
	defer client.close()
	e, err := client.why(cmd.Context(), o)
	if apierrors.IsNotFound(err) && o.Namespace != "" {
		return fmt.Errorf("%w in namespace %s; name another by -n", err, o.Namespace)
	}
	if err != nil {
		return err
	}
	return printExplanation(cmd.OutOrStdout(), f.output, e)
}

// colours of states, for terminals.
var colours = map[v1alpha1.State]string{v1alpha1.StateDone: "32", v1alpha1.StateProgressing: "33", v1alpha1.StateStuck: "31"}

func coloured(w io.Writer, state v1alpha1.State, s string) string {
	if code := colours[state]; code != "" && isTerminal(w) {
		return "\x1b[" + code + "m" + s + "\x1b[0m"
	}
	return s
}

func printExplanation(w io.Writer, output string, e *v1alpha1.Explanation) error {
	if done, err := printObject(w, output, e); done {
		return err
	}
	state := string(e.State)
	if e.Cause != "" {
		state += ": " + e.Cause
	}
	fmt.Fprintf(w, "%s: %s\n", objectName(e.Object), coloured(w, e.State, state))
	line(w, "why", e.Message)
	if !e.Since.IsZero() {
		line(w, "since", fmt.Sprintf("%s (%s ago)", e.Since.UTC().Format(time.RFC3339), age(time.Now(), e.Since.Time)))
	}
	line(w, "provider", e.Provider)
	line(w, "asked last", opLine(e.Asked))
	line(w, "waits for", e.WaitsFor)
	for _, also := range e.Also {
		line(w, "also", also.Cause+": "+also.Message)
	}
	for _, step := range e.Next {
		line(w, "next", step.What)
		if step.Command != "" {
			line(w, "", "  "+step.Command)
		}
	}
	return nil
}

// line prints a word and its text; nothing without a text.
func line(w io.Writer, word, said string) {
	if said == "" {
		return
	}
	if word != "" {
		word += ":"
	}
	fmt.Fprintf(w, "  %-11s %s\n", word, said)
}

// opLine describes an op: its name, time, duration and answer.
func opLine(o *v1alpha1.Op) string {
	if o == nil {
		return ""
	}
	const most = time.Millisecond
	said := fmt.Sprintf("%s at %s", o.Name, o.At.UTC().Format(time.RFC3339))
	if o.Generation != 0 {
		said += fmt.Sprintf(", of generation %d", o.Generation)
	}
	if o.Running {
		return said + fmt.Sprintf(", running for %v", o.Took.Round(most))
	}
	said += fmt.Sprintf(", took %v: %s", o.Took.Round(most), o.Code)
	if o.Message != "" {
		said += ": " + o.Message
	}
	if o.RetryAfter != (metav1.Duration{}) {
		said += fmt.Sprintf(" (ask again after %v)", o.RetryAfter.Duration)
	}
	return said
}
