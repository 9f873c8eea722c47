package metrics

// unnamed is the name of the provider of a manager that has but one.
const unnamed = "provider"

// Measure is Provider("provider").Measure.
func (m *Metrics) Measure(invoker Invoker) *MeasuredInvoker {
	return m.Provider(unnamed).Measure(invoker)
}

// Background is Provider("provider").Background.
func (m *Metrics) Background() *Background { return m.Provider(unnamed).Background() }

// Brake is Provider("provider").Brake.
func (m *Metrics) Brake() *Brake { return m.Provider(unnamed).Brake() }

// Egress is Provider("provider").Egress.
func (m *Metrics) Egress() *Egress { return m.Provider(unnamed).Egress() }

// Serving is Provider("provider").Serving.
func (m *Metrics) Serving(name, version, digest string) {
	m.Provider(unnamed).Serving(name, version, digest)
}

// Rejected is Provider("provider").Rejected.
func (m *Metrics) Rejected(reason string) { m.Provider(unnamed).Rejected(reason) }

// InstanceCreated is Provider("provider").InstanceCreated.
func (m *Metrics) InstanceCreated() { m.Provider(unnamed).InstanceCreated() }

// InstanceDiscarded is Provider("provider").InstanceDiscarded.
func (m *Metrics) InstanceDiscarded(reason string) { m.Provider(unnamed).InstanceDiscarded(reason) }

// Dropped is Provider("provider").Dropped.
func (m *Metrics) Dropped(what string) { m.Provider(unnamed).Dropped(what) }
