// Package credential authenticates requests of a provider with secrets that
// the provider never sees. The provider names a credential; the host applies
// it after the egress check, and scrubs what comes back.
//
// A Set holds the credentials of one provider. Its values come from Kubernetes
// Secrets (Secrets), and whatever it was given or has computed is known to its
// Scrubber.
//
// Egress, the signers' modules and the configuration are handed in behind
// interfaces.
package credential
