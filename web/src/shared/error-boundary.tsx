// Shows an error instead of a component that fails, and keeps the rest of the page.

import { Component, type ComponentChildren } from 'preact';

interface Props {
  what: unknown; // the content: a change resets the error
  children: ComponentChildren;
}

export class ErrorBoundary extends Component<Props, { failure: string }> {
  override state = { failure: '' };

  override componentDidCatch(error: unknown): void {
    console.error(error);
    this.setState({ failure: error instanceof Error ? error.message : String(error) });
  }

  // Other content is tried again.
  override componentWillReceiveProps(next: Readonly<Props>): void {
    if (next.what !== this.props.what && this.state.failure) this.setState({ failure: '' });
  }

  render() {
    const { failure } = this.state;
    return failure ? (
      <p class="message warn" role="alert">
        This part cannot be shown: {failure}
      </p>
    ) : (
      this.props.children
    );
  }
}
