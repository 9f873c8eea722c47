// Package credential authenticates requests of a provider with secrets that the provider
// never sees. The provider names a credential. The host applies it after the egress check,
// and scrubs the answer.
//
// A Set holds the credentials of one provider. Its values come from Kubernetes Secrets
// (Secrets). Its Scrubber knows all values that the Set was given or has computed.
//
// Egress, the signers' modules and the configuration are passed in as interfaces.
package credential
